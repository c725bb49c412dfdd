"""Train the demo's model: a Qwen2.5-VL that reads generated scenes, as pictures and as text, in five phases.

The first three teach a model of 3.5 million parameters to see and to answer in the form asked for. The fourth adds
layers that look values up in scenes as text (`lookup`), where an answer is often a number of sixteen digits in a JSON
of a thousand tokens; the fifth shows more pictures again. The result has 5.5 million parameters.
"""
