/** Text as it can be shown on a terminal: what would move the cursor, change the order of letters or be unseen is named. */
export function visible(text: string): string {
  return text.replaceAll(unseen, (character) => {
    if (character === '\n') return '\\n';
    if (character === '\t') return '\\t';
    return `\\u{${(character.codePointAt(0) as number).toString(16)}}`;
  });
}

// Controls, formats (bidi, zero width), halves of pairs, private and unassigned characters, separators other than the space, blank letters.
const unseen =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Me}\u{115f}\u{1160}\u{2800}\u{3164}\u{ffa0}]|(?! )\p{Zs}/gu;

/** The same for a text of several lines, which stay lines. */
export function visibleLines(text: string): string {
  return text.split('\n').map(visible).join('\n');
}

/** JSON text of the same value in which nothing is unseen. Precondition: it has no white space between its tokens. */
export function visibleJson(json: string): string {
  return json.replaceAll(unseen, (character) =>
    [...Array(character.length).keys()]
      .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}
