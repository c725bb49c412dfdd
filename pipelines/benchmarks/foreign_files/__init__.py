"""Foreign archives, workbooks and Arrow files, read within limits: damage ends with a sentence."""
