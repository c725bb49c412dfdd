"""Train the demo's model: a Qwen2.5-VL of 3.5 million parameters that reads colors and shapes off generated scenes."""
