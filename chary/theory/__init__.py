"""The paper's theory in small experiments: why the members' targets must be independent."""
