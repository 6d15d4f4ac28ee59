"""What the gateway costs, as ratios measured in one run. Not tests: nothing here fails a build."""
