"""The statistics behind every verdict. All functions are pure."""
