"""Language models: endpoints, the engine behind them, the call cache and the bill."""
