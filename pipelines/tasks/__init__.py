"""Tasks: folders in which programs act, sandboxes, and checks that decide what is right."""
