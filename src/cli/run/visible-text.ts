// Controls, formats (bidi, zero width), halves of pairs, private and unassigned characters, separators other than the space, blank letters.
const unseen =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Me}\u{115f}\u{1160}\u{2800}\u{3164}\u{ffa0}]|(?! )\p{Zs}/gu;

/** Text as it can be shown on a terminal: what would move the cursor, change the order of letters or be unseen is named. */
export function visible(text: string): string {
  return text.replaceAll(unseen, (character) => {
    if (character === '\n') return '\\n';
    if (character === '\t') return '\\t';
    return `\\u{${(character.codePointAt(0) as number).toString(16)}}`;
  });
}
