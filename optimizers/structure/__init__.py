"""Structure: an Optuna search over the settings of a protocol."""
