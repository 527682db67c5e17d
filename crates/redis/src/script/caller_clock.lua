-- Replaces `clock.lua` in tests: the time is an argument. As it may be in Redis's past, keys live
-- for a century longer.
local now = ARGV[2] * 1000000 + ARGV[3]
local origin = 3153600000000
local behind = 4
