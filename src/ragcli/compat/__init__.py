"""The interfaces of other libraries over ragcli, so that their users change one import."""
