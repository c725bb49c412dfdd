"""The command `finetune`: its flags, its spec, its progress."""
