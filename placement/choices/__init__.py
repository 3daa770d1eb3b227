"""What a role may choose (layout, engine, master, offload) and the facts of cards that choices are costed on."""
