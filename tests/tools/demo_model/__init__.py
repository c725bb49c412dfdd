"""Train the demo's model: a Qwen2.5-VL that reads colors and shapes off generated scenes, in four phases.

The package holds the model after the first three: 3.5 million parameters. The fourth (`--text-steps 900`) adds layers
for scenes as text (`txt2txt`, whose answers are mostly numbers of sixteen digits in a JSON of a thousand tokens): 5.5
million parameters. After 550 steps of it, in 25 minutes of two cores beside other work, the model continued numbers
that it had begun and answered 29 of 96 held-out questions (sizes 20 of 30, names 5 of 19, rotations 4 of 28,
coordinates 0 of 19). That is less than the half asked of it, so it is not shipped; its loss was still falling.
"""
