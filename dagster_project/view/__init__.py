"""Pages for people: each looks at one output of the lineage, or lets a person try something, on this machine only."""
