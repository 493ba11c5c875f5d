vim.lsp.config('torchstray', { cmd = { 'torchstray', 'server' }, filetypes = { 'python' },
  root_markers = { 'pyproject.toml', '.git' } })
vim.lsp.enable('torchstray')
