"""C{msmq watch}: the full-screen monitor; its model is pure, and only its screen imports textual."""
