"""A cheap program first, and others where it is not sure: the router and its calibration."""
