-- The counts of book.py, for several gateways: one atomic step on the server's own clock.
--
-- KEYS, four for each scope: its requests (sorted set: call -> when), what has spent tokens (sorted set: entry -> when),
-- how many (hash: entry -> tokens, and "*" -> the sum), and the calls that run (sorted set: call -> end of its lease).
-- An entry is a call, or with "+" after it what the call took beyond its reservation. A call that runs and has tokens,
-- though it is not among those that spent any, is overdue. All keys of one hash slot.
-- ARGV: what to do, the call, tokens (-1: give all back), how many to wait for where there is no room, what the call has
-- reserved, how long ago it did (or entered), how long ago it ended, window, lease, now (0: the server's clock), then rpm,
-- tpm, concurrency of each scope (-1: none). Times are microseconds.
-- Returns whether it was done, then for each scope: requests, tokens, running, time until all requests are free, and all
-- tokens, how long to wait for room for requests and tokens (0: there is room, -1: never), and whether too many run.
--
-- A settling or renewing of a call tells all there is to know of it: the server may have forgotten it, or never heard.

local op, call, tokens = ARGV[1], ARGV[2], tonumber(ARGV[3])
local most, reserved = tonumber(ARGV[4]), tonumber(ARGV[5])
local began_ago, ended_ago = tonumber(ARGV[6]), tonumber(ARGV[7])
local window, lease, now = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local CHUNK = 500
local BUSY = 1000000

if now == 0 then
  local clock = redis.call('TIME')
  now = clock[1] * 1000000 + clock[2]
end

if op == 'present' or op == 'leave' then
  -- KEYS[1]: the gateways that share (sorted set: gateway -> end of its lease). Returns how many there are.
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  if op == 'present' then
    redis.call('ZADD', KEYS[1], now + lease, call)
    redis.call('PEXPIRE', KEYS[1], math.ceil(lease / 1000))
  else
    redis.call('ZREM', KEYS[1], call)
  end
  return {redis.call('ZCARD', KEYS[1])}
end

local function put(amounts, entry, amount)
  local before = tonumber(redis.call('HGET', amounts, entry)) or 0
  if amount == before then return end
  if amount > 0 then redis.call('HSET', amounts, entry, amount) else redis.call('HDEL', amounts, entry) end
  redis.call('HINCRBY', amounts, '*', amount - before)
end

local function expire(requests, spent, amounts, running)
  redis.call('ZREMRANGEBYSCORE', requests, '-inf', now - window)
  while true do
    -- Of their gateway nothing was heard: they run no longer.
    local lost = redis.call('ZRANGEBYSCORE', running, '-inf', now, 'LIMIT', 0, CHUNK)
    if #lost == 0 then break end
    redis.call('ZREM', running, unpack(lost))
    for _, entry in ipairs(lost) do
      if not redis.call('ZSCORE', spent, entry) then put(amounts, entry, 0) end
    end
  end
  while true do
    local old = redis.call('ZRANGEBYSCORE', spent, '-inf', now - window, 'LIMIT', 0, CHUNK)
    if #old == 0 then break end
    redis.call('ZREM', spent, unpack(old))
    for _, entry in ipairs(old) do
      if not redis.call('ZSCORE', running, entry) then put(amounts, entry, 0) end
    end
  end
end

local function left_of(charged_at) return math.max(1, charged_at + window - now) end

local function until_requests(requests, count)
  local found = redis.call('ZRANGE', requests, count - 1, count - 1, 'WITHSCORES')
  return found[2] and left_of(tonumber(found[2])) or -1
end

-- Calls `look(entry, when)` with each member in its order, until that returns something, which is returned.
local function each(set, look)
  local from = 0
  while true do
    local found = redis.call('ZRANGE', set, from, from + CHUNK - 1, 'WITHSCORES')
    if #found == 0 then return nil end
    for i = 1, #found, 2 do
      local answer = look(found[i], tonumber(found[i + 1]))
      if answer then return answer end
    end
    from = from + CHUNK
  end
end

local function amount_of(amounts, entry) return tonumber(redis.call('HGET', amounts, entry)) or 0 end

local function is_overdue(spent, amounts, entry)
  return not redis.call('ZSCORE', spent, entry) and amount_of(amounts, entry) > 0
end

local function until_tokens(spent, amounts, running, count)
  local least = 0
  local answer = each(running, function(entry)
    if is_overdue(spent, amounts, entry) then
      least = BUSY
      count = count - amount_of(amounts, entry)
      if count <= 0 then return BUSY end
    end
  end)
  return answer or each(spent, function(entry, when)
    count = count - amount_of(amounts, entry)
    if count <= 0 then return math.max(least, left_of(when)) end
  end) or -1
end

local function forget(requests, spent, amounts, running)
  put(amounts, call, 0)
  for _, set in ipairs({requests, spent, running}) do redis.call('ZREM', set, call) end
end

local function settle(requests, spent, amounts, running)
  local kept, beyond = math.min(tokens, reserved), math.max(0, tokens - reserved)
  redis.call('ZREM', running, call)
  if began_ago < window then redis.call('ZADD', requests, 'NX', now - began_ago, call) end
  if not redis.call('ZSCORE', spent, call) then
    put(amounts, call, 0)
    if kept > 0 and began_ago < window then redis.call('ZADD', spent, now - began_ago, call) end
  end
  if redis.call('ZSCORE', spent, call) then
    put(amounts, call, kept)
    if kept == 0 then redis.call('ZREM', spent, call) end
  end
  if beyond > 0 and ended_ago < window then
    redis.call('ZADD', spent, 'NX', now - ended_ago, call .. '+')
    put(amounts, call .. '+', beyond)
  end
end

local function renew(requests, spent, amounts, running)
  if began_ago < window then redis.call('ZADD', requests, 'NX', now - began_ago, call) end
  if reserved > 0 and amount_of(amounts, call) == 0 then
    put(amounts, call, reserved)
    if began_ago < window then redis.call('ZADD', spent, now - began_ago, call) end
  end
  redis.call('ZADD', running, now + lease, call)
end

local done, answer, scopes = 1, {}, {}
for i = 1, #KEYS, 4 do
  local requests, spent, amounts, running = KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3]
  local bounds = 10 + (i - 1) / 4 * 3
  local rpm, tpm, together = tonumber(ARGV[bounds + 1]), tonumber(ARGV[bounds + 2]), tonumber(ARGV[bounds + 3])
  expire(requests, spent, amounts, running)
  local count = redis.call('ZCARD', requests)
  local used = amount_of(amounts, '*')
  local runs = redis.call('ZCARD', running)
  local wait_requests, wait_tokens, busy = 0, 0, 0
  if op == 'enter' or op == 'reserve' then
    local more = (op == 'enter' or not redis.call('ZSCORE', requests, call)) and 1 or 0
    if rpm >= 0 and more > 0 and count + more > rpm then
      wait_requests = until_requests(requests, count + more - rpm)
    end
    if tpm >= 0 and tokens > tpm then
      wait_tokens = -1
    elseif tpm >= 0 and tokens > 0 and used + tokens > tpm then
      wait_tokens = until_tokens(spent, amounts, running, used + math.min(most, tpm) - tpm)
    end
    if op == 'enter' and together >= 0 and runs >= together then busy = 1 end
    if wait_requests ~= 0 or wait_tokens ~= 0 or busy ~= 0 then done = 0 end
  end
  scopes[#scopes + 1] = {requests, spent, amounts, running}
  answer[#answer + 1] = {count, used, runs, 0, 0, wait_requests, wait_tokens, busy}
end

for i, scope in ipairs(scopes) do
  local requests, spent, amounts, running = unpack(scope)
  local facts = answer[i]
  if op == 'enter' and done == 1 then
    redis.call('ZADD', requests, now, call)
    redis.call('ZADD', running, now + lease, call)
    facts[1] = facts[1] + 1
  elseif op == 'reserve' and done == 1 then
    if redis.call('ZADD', requests, now, call) == 1 then facts[1] = facts[1] + 1 end
    redis.call('ZADD', spent, now, call)
    put(amounts, call, tokens)
    redis.call('ZADD', running, now + lease, call)
    facts[2] = facts[2] + tokens
  elseif op == 'reserve' or (op == 'settle' and tokens < 0) then
    forget(requests, spent, amounts, running)
  elseif op == 'settle' then
    settle(requests, spent, amounts, running)
  elseif op == 'lower' then
    if redis.call('ZSCORE', spent, call) then
      put(amounts, call, math.min(tokens, amount_of(amounts, call)))
      if tokens == 0 then redis.call('ZREM', spent, call) end
    end
  elseif op == 'renew' then
    renew(requests, spent, amounts, running)
  end
  if op ~= 'look' then
    local keep = math.ceil((window + lease) / 1000)
    for _, key in ipairs(scope) do redis.call('PEXPIRE', key, keep) end
  end
  if op == 'enter' or op == 'reserve' or op == 'look' then
    local newest = redis.call('ZRANGE', requests, -1, -1, 'WITHSCORES')
    if newest[2] then facts[4] = left_of(tonumber(newest[2])) end
    newest = redis.call('ZRANGE', spent, -1, -1, 'WITHSCORES')
    if newest[2] then facts[5] = left_of(tonumber(newest[2])) end
    if facts[5] < BUSY and facts[2] > 0 and
        each(running, function(entry) return is_overdue(spent, amounts, entry) end) then
      facts[5] = BUSY
    end
  end
end

local flat = {done}
for _, facts in ipairs(answer) do
  for _, fact in ipairs(facts) do flat[#flat + 1] = fact end
end
return flat
