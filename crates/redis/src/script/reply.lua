return table.concat(replies)
