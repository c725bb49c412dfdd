"""Fine-tune models on the training data of benchmarks, on Ray Train."""
