const controlCharacter = /\p{Cc}/u;

/** Whether a text has a control character, such as NUL or a line feed. */
export function hasControlCharacter(text: string): boolean {
  return controlCharacter.test(text);
}

/** What is wrong with a text that stands in one line, in words that never repeat it; null: nothing. */
export function textProblem(text: string, maxChars: number): string | null {
  if (text === '') return 'must not be empty';
  if (text.length > maxChars) return `has ${text.length} characters, at most ${maxChars} are allowed`;
  if (hasControlCharacter(text)) return 'must not contain control characters';
  return text.isWellFormed() ? null : 'is not valid Unicode';
}
