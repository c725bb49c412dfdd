"""The demo: sample data and a tiny model, so that the main job can be seen at work anywhere."""
