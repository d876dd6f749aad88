"""The meter: an endpoint through which programs built with any framework call their LM."""
