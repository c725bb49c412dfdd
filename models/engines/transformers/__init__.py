"""Engine that runs checkpoints with transformers."""

from models.environment import let_waiting_threads_sleep

let_waiting_threads_sleep()  # before a module of this package imports torch, which reads it then
