const name = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const value = /^[\t\x20-\x7e\x80-\xff]*$/;

export function isHeaderName(text: string): boolean {
  return name.test(text);
}

/** Latin-1 without control characters, as it travels. */
export function isHeaderValue(text: string): boolean {
  return value.test(text);
}
