"""Simulated phones behind a real ADB server.

`protocol` is the wire format, `server` the smart-socket server with its host services, `device` a phone and `programs`
what its shell answers, `shell` the shell's grammar, `files` its files, `devtools` the browser its screen lives in.
`phones` starts all that in a process of its own (`python -m assets.environments.adb`).
"""
