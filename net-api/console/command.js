// Divides a line into a function and the words after it, as a shell does before `saline` sees them. What the words mean is read
// where `saline` has it read, too.

/** The characters that a backslash makes plain inside of double quotes; before others it stands for itself. */
const ESCAPED_IN_QUOTES = '"\\$`';

/** Divides a line into words. Throws when a quote does not end. */
export function words(line) {
  const found = [];
  let word = null;
  let quote = null;
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at];
    const next = line[at + 1];
    if (quote) {
      if (char === quote) quote = null;
      else if (char === "\\" && quote === '"' && next !== undefined && ESCAPED_IN_QUOTES.includes(next)) word += line[(at += 1)];
      else word += char;
    } else if (char === "'" || char === '"') {
      quote = char;
      word ??= "";
    } else if (char === "\\" && next !== undefined) {
      word = (word ?? "") + line[(at += 1)];
    } else if (/\s/.test(char)) {
      if (word !== null) found.push(word);
      word = null;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote) throw new Error(`The quote ${quote} does not end: write it twice, or \\${quote} for the character itself.`);
  if (word !== null) found.push(word);
  return found;
}

/** Returns `{fun, words}` of a line. */
export function command(line) {
  const [fun, ...rest] = words(line);
  if (!fun || !/^\w+\.\w+(,\w+\.\w+)*$/.test(fun)) {
    throw new Error("A function is written module.function, such as test.ping; several have commas between them.");
  }
  return { fun, words: rest };
}
