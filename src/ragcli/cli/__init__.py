"""The command line: words in, one call below, a table or JSON out. No retrieval logic lives here.

Starting fast is a feature: `ragcli --help` and `ragcli grep` answer before the hand leaves the key. So this
package imports nothing at its top, each command's module is loaded when that command is called, and a command
imports what it calls inside its function.
"""
