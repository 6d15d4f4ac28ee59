"""What the whole core shares: state tables, languages of the model, checks of input. Pure."""
