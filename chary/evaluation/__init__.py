"""A trained policy in use: acting, doubting, and running in a simulator."""
