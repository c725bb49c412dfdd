"""Answer a job's units through the batch endpoint of its model's provider."""
