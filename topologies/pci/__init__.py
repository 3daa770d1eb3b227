"""The PCIe tree as lspci and sysfs tell it."""
