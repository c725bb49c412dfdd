"""Train the demo's model: a Qwen2.5-VL of 3.5 million parameters that reads colors and shapes off generated scenes.

It has not learned `txt2txt`, whose answers are mostly numbers of sixteen digits to be copied from a JSON of a thousand
tokens. Two trainings with three digits a token were given up: 425 steps of three such scenes each (a loss of 2.0 a
token, no longer falling), and 550 steps that repeat random records (6.3, that of a guess).
"""
