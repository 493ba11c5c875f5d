-- Does in a real Neovim what a person does, and writes down as JSON in $SEEN what there is to see.
local PATIENCE = 30000 -- milliseconds
local seen = {}

local function finish()
  vim.fn.writefile({ vim.json.encode(seen) }, os.getenv('SEEN'))
  vim.cmd('qall!')
end

local function await(what, happened)
  if seen.failure == nil and not vim.wait(PATIENCE, happened, 10) then
    seen.failure = 'no ' .. what
    seen.messages = vim.api.nvim_exec2('messages', { output = true }).output
  end
end

local function text()
  return vim.api.nvim_buf_get_lines(0, 0, -1, false)
end

-- The diagnostics of the buffer, each with the text that is underlined.
local function diagnostics()
  local found = {}
  for _, one in ipairs(vim.diagnostic.get(0)) do
    local lines = vim.api.nvim_buf_get_text(0, one.lnum, one.col, one.end_lnum, one.end_col, {})
    table.insert(found, { code = one.code, source = one.source, severity = vim.diagnostic.severity[one.severity],
      message = one.message, marked = table.concat(lines, '\n') })
  end
  return found
end

local function caret_on(word)
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
  vim.fn.search('\\V' .. word)
end

local function floating()
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= '' then return window end
  end
end

local function hover(word)
  caret_on(word)
  vim.lsp.buf.hover()
  await('hover on ' .. word, function() return floating() ~= nil end)
  local window = floating()
  if window == nil then return {} end
  local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
  vim.api.nvim_win_close(window, true)
  return lines
end

await('client', function() return #vim.lsp.get_clients({ bufnr = 0, name = 'torchstray' }) == 1 end)
await('diagnostics', function() return #vim.diagnostic.get(0) > 0 end)
local client = vim.lsp.get_clients({ bufnr = 0 })[1] or {}
seen.root, seen.encoding = client.root_dir, client.offset_encoding
seen.opened = diagnostics()

seen.hover_on_finding = hover('self.mask')
seen.hover_on_class = hover('Net')

local function shown(code, marked)
  return vim.iter(diagnostics()):any(function(one)
    return one.code == code and (marked == nil or one.marked == marked)
  end)
end

-- A line is typed: while it is half done the others stay, afterwards its own is there too.
vim.api.nvim_buf_set_lines(0, 7, 7, false, { '        self.more = torch.ones(' })
await('syntax error', function() return shown('syntax-error') end)
seen.half_typed = diagnostics()
vim.api.nvim_buf_set_lines(0, 7, 8, false, { "        '🙂'; self.more = torch.ones(3)" })
await('diagnostic of the new line', function() return shown('unregistered-tensor', 'self.more') end)
seen.typed = diagnostics()

caret_on('self.mask')
vim.lsp.buf.code_action({ apply = true, filter = function(action) return action.isPreferred end })
await('repair', function() return vim.fn.search('register_buffer("mask"', 'nw') > 0 end)
await('fewer diagnostics', function()
  return #vim.diagnostic.get(0) == 1 and shown('unregistered-tensor', 'self.more')
end)
seen.repaired, seen.after_repair = text(), diagnostics()

vim.lsp.buf.code_action({ apply = true, context = { only = { 'source.fixAll.torchstray' }, diagnostics = {} } })
await('repair of all', function() return vim.fn.search('register_buffer("more"', 'nw') > 0 end)
await('no diagnostics', function() return #vim.diagnostic.get(0) == 0 end)
seen.all_repaired = text()

vim.api.nvim_buf_set_lines(0, 7, 8, false, { '        self.more = torch.ones(3)' })
await('diagnostic that is back', function() return shown('unregistered-tensor', 'self.more') end)
local buffer = vim.api.nvim_get_current_buf()
vim.cmd('bdelete!')
await('end of the diagnostics', function() return #vim.diagnostic.get(buffer) == 0 end)
seen.after_closing = #vim.diagnostic.get(buffer)

if client.stop then client:stop() end
await('end of the server', function() return #vim.lsp.get_clients({ name = 'torchstray' }) == 0 end)
finish()
