"""The search for the settings that fit the load of a gateway."""
