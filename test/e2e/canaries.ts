import { randomBytes } from 'node:crypto';

/** Secrets that are told apart by where they were put in. */
export class Canaries {
  readonly #values = new Map<string, string>();

  /** One with characters that look different in a url, in base64 and in JSON; `plain` where they cannot be used. */
  plant(place: string, plain = false): string {
    const id = randomBytes(8).toString('hex');
    return this.know(place, plain ? `canary-${place}-${id}` : `cn/${place}+${id}=é`);
  }

  know(place: string, value: string): string {
    this.#values.set(place, value);
    return value;
  }

  /** Every place whose secret is in one of the texts, in whatever form, and the text it is in. */
  foundIn(texts: Readonly<Record<string, string>>): string[] {
    return Object.entries(texts).flatMap(([name, text]) =>
      [...this.#values].flatMap(([place, value]) =>
        formsOf(value).flatMap(([form, spelling]) =>
          text.includes(spelling) ? [`${place} (${form}) in ${name}: ${around(text, spelling)}`] : [],
        ),
      ),
    );
  }
}

/** Written without a look at how the redactor does it. */
function formsOf(value: string): [form: string, spelling: string][] {
  const bytes = Buffer.from(value);
  // Inside a longer text base64 has three forms; what lies between two of its groups of three bytes is common to all.
  const inner = [0, 1, 2].map((skip): [string, string] => {
    const length = Math.floor((bytes.length - skip) / 3) * 3;
    return [`base64 at ${skip}`, bytes.subarray(skip, skip + length).toString('base64')];
  });
  return [
    ['plain', value],
    ['without its last letters', value.slice(0, -4)],
    ['JSON', JSON.stringify(value).slice(1, -1)],
    ['url', encodeURIComponent(value)],
    ['form', new URLSearchParams({ v: value }).toString().slice(2)],
    ['hex', bytes.toString('hex')],
    ['hex, as Node prints a buffer', bytes.toString('hex').replaceAll(/..(?!$)/g, '$& ')],
    ['UTF-16', Buffer.from(value, 'utf16le').toString('latin1')],
    ['backwards', [...value].reverse().join('')],
    ...inner,
    ...inner.map(([form, text]): [string, string] => [
      `${form}, for urls`,
      text.replaceAll('+', '-').replaceAll('/', '_'),
    ]),
  ];
}

function around(text: string, spelling: string): string {
  const at = text.indexOf(spelling);
  return JSON.stringify(text.slice(Math.max(0, at - 80), at + spelling.length + 40));
}
