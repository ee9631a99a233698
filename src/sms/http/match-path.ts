/** The variable parts of a path, `{name}` in its pattern, decoded; null where the path is another one. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    const text = given[index] ?? '';
    if (name === undefined) {
      if (part !== text) return null;
      continue;
    }
    try {
      params[name] = decodeURIComponent(text);
    } catch {
      return null;
    }
    if (params[name] === '') return null;
  }
  return params;
}
