-- On a node of a Cluster, one call may have keys of all slots that the node serves. Redis rejects
-- calls whose `KEYS` are in several slots, so only the first of them is declared there; the others
-- are arguments. A key that this node does not serve fails the call when it is first
-- accessed. So such a call reads all keys before it writes any.
local has_undeclared = #ARGV >= behind
for i = behind, #ARGV do KEYS[#KEYS + 1] = ARGV[i] end

