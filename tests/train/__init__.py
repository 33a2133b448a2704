"""Tests of the training side, on the real GRPOTrainer."""
