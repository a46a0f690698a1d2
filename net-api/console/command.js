// Reads a function and its arguments as a shell and `saline` do: words with quotes, and NAME=VALUE for named ones.

/** Splits a line into words. Throws when a quote does not end. */
export function words(line) {
  const found = [];
  let word = null;
  let quote = null;
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at];
    if (quote) {
      if (char === quote) quote = null;
      else if (char === "\\" && quote === '"' && at + 1 < line.length) word += line[(at += 1)];
      else word += char;
    } else if (char === "'" || char === '"') {
      quote = char;
      word ??= "";
    } else if (char === "\\" && at + 1 < line.length) {
      word = (word ?? "") + line[(at += 1)];
    } else if (/\s/.test(char)) {
      if (word !== null) found.push(word);
      word = null;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote) throw new Error(`the quote ${quote} does not end`);
  if (word !== null) found.push(word);
  return found;
}

/** Returns `{fun, arg, kwarg}` of a line. Values stay texts, which the API reads as the command line does. */
export function command(line) {
  const [fun, ...rest] = words(line);
  if (!fun || !/^\w+\.\w+$/.test(fun)) throw new Error("a function is written module.function, such as test.ping");
  const arg = [];
  const kwarg = {};
  for (const word of rest) {
    const named = /^([A-Za-z_]\w*)=(.*)$/s.exec(word);
    if (named) kwarg[named[1]] = named[2];
    else arg.push(word);
  }
  return { fun, arg, kwarg };
}
