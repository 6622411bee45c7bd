"""Completion in PowerShell 5 and newer, which click lacks: the script, and the form of what it reads."""

from __future__ import annotations

import os
from typing import ClassVar

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

_SCRIPT = r"""
Register-ArgumentCompleter -Native -CommandName @('%(prog_name)s', '%(prog_name)s.exe') -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $before = $commandAst.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursorPosition }
    $words = @($before | ForEach-Object {
        $isText = $_ -is [System.Management.Automation.Language.StringConstantExpressionAst]
        if ($isText) { $_.Value } else { $_.Extent.Text }
    })
    if ($wordToComplete) { $words = @($words | Select-Object -SkipLast 1) }
    $env:%(complete_var)s = 'powershell_complete'
    $env:COMP_WORDS = $words -join "`n"
    $env:COMP_CWORD = "$wordToComplete".Trim("'", '"')
    try {
        & '%(prog_name)s' 2>$null | Where-Object { $_ } | ForEach-Object {
            $value, $help = $_ -split "`t", 2
            if (-not $help) { $help = $value }
            $text = if ($value -match '[^A-Za-z0-9_./:=\\-]') { "'" + $value.Replace("'", "''") + "'" } else { $value }
            [System.Management.Automation.CompletionResult]::new($text, $value, 'ParameterValue', $help)
        }
    } finally {
        Remove-Item -ErrorAction SilentlyContinue Env:%(complete_var)s, Env:COMP_WORDS, Env:COMP_CWORD
    }
}
"""


class PowerShellComplete(ShellComplete):
    """One line for each value: the value, a tab and its help. Files are left to PowerShell, which completes them."""

    name: ClassVar[str] = "powershell"
    source_template: ClassVar[str] = _SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one to complete, which the script sends one a line, and that one."""
        words = os.environ.get("COMP_WORDS", "").split("\n")
        return words[1:], os.environ.get("COMP_CWORD", "")

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Value and help; empty for a file or a folder."""
        if item.type != "plain":
            return ""
        return f"{item.value}\t{' '.join((item.help or '').split())}"

    def complete(self) -> str:
        """The lines; without those of files."""
        return "\n".join(line for line in super().complete().splitlines() if line)


def register() -> None:
    """Add the class to those of click."""
    add_completion_class(PowerShellComplete)
