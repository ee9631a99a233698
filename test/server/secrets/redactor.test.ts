import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { knownSecrets, Redactor, redactStrings } from '../../../src/server/secrets/redactor.ts';
import { Secret } from '../../../src/server/secrets/secret.ts';

const base64 = (text: string, encoding: 'base64' | 'base64url' = 'base64') => Buffer.from(text).toString(encoding);
const SECRET = 'canary/9+Q value';

function redactor(...secrets: string[]): Redactor {
  const made = new Redactor();
  for (const secret of secrets) made.add(secret);
  return made;
}

describe('a known secret', () => {
  it.each([
    ['plain', SECRET],
    ['twice', `${SECRET} ${SECRET}`],
    ['in a url', `https://x/?k=${encodeURIComponent(SECRET)}`],
    [
      'in a url, in small letters',
      `https://x/?k=${encodeURIComponent(SECRET).replaceAll('%2F', '%2f').replace('%2B', '%2b')}`,
    ],
    ['in a path', `https://x/${encodeURI(SECRET)}`],
    ['in a form', new URLSearchParams({ k: SECRET }).toString()],
    ['in base64', base64(SECRET)],
    ['in base64 for urls', base64(SECRET, 'base64url')],
    ['behind one byte in base64', base64(`u${SECRET}`)],
    ['behind two bytes in base64', base64(`u:${SECRET}`)],
    ['in the middle of base64', base64(`user:${SECRET}@host and more`)],
  ])('is redacted: %s', (_, text) => {
    const { redact } = redactor(SECRET);
    const clean = redact(`before ${text} after`);
    expect(clean).toMatch(/^before .*\[redacted\].* after$/);
    // What is left of an encoded form is what its neighbours decide: a character or two.
    for (const form of [SECRET, encodeURIComponent(SECRET), base64(SECRET).slice(4, 12)])
      expect(clean).not.toContain(form);
  });

  it.each([
    ['quotes and tabs', 'say "hi"\tnow', '{"k":"say \\"hi\\"\\tnow"}', '{"k":"[redacted]"}'],
    ['letters beyond ASCII', 'schlüssel', '"schl\\u00fcssel"', '"[redacted]"'],
    ['several lines', '-----BEGIN-----\nabcdefgh\n-----END-----', 'got abcdefgh', 'got [redacted]'],
    ['the end of a line of a file', 'canary-99\n', 'token canary-99 here', 'token [redacted] here'],
    ['characters of patterns', 'a.b*c[d](e)|f', 'got a.b*c[d](e)|f, not axb*c', 'got [redacted], not axb*c'],
    ['half a character', 'abcdefg\ud800h', 'got abcdefg\ud800h', 'got [redacted]'],
  ])('with %s is redacted', (_, secret, text, clean) => {
    expect(redactor(secret).redact(text)).toBe(clean);
  });

  it('that contains another one is redacted completely', () => {
    const { redact } = redactor('token-of', 'token-of-bob');
    expect(redact('token-of-bob, token-of-eve')).toBe('[redacted], [redacted]-eve');
  });

  it('of fewer than eight characters is redacted only in its scope', () => {
    const all = redactor('s3cret', 'none', '');
    expect(all.redact('s3cret none')).toBe('s3cret none');
    expect(all.scoped(['s3cret', 'none'])('s3cret none')).toBe('[redacted] none');
    expect(all.scoped(['s3cret', 'eight-or-more'], 8)('s3cret eight-or-more')).toBe('s3cret [redacted]');
  });

  it('of a record is evicted above the limit, least recently used first', () => {
    const made = new Redactor();
    for (let i = 0; i < 1_000; i++) made.addOfRecord(`secret-number-${i}`);
    made.addOfRecord('secret-number-0');
    made.addOfRecord('one-more-secret');
    expect(made.redact('secret-number-0 secret-number-1 one-more-secret')).toBe(
      '[redacted] secret-number-1 [redacted]',
    );
  });

  it('of the process is never evicted', () => {
    const made = redactor('the-key-of-the-model');
    made.addOfRecord(Array.from({ length: 3_000 }, (_, at) => `certificate-line-${at}`).join('\n'));
    for (let i = 0; i < 1_500; i++) made.addOfRecord(`secret-number-${i}`);
    expect(made.redact('the-key-of-the-model')).toBe('[redacted]');
  });

  it('is redacted in its scope after its eviction', () => {
    const made = new Redactor();
    made.addOfRecord('secret-of-one-server');
    const redact = made.scoped(['secret-of-one-server']);
    for (let i = 0; i < 1_000; i++) made.addOfRecord(`secret-number-${i}`);
    expect(made.redact('secret-of-one-server')).toBe('secret-of-one-server');
    expect(redact('secret-of-one-server')).toBe('[redacted]');
  });

  it('includes the value of every Secret', () => {
    new Secret('known-from-now-on');
    new Secret('http://proxy:hidden-part', ['hidden-part']);
    expect(knownSecrets.redact('known-from-now-on')).toBe('[redacted]');
    expect(knownSecrets.redact('http://proxy:hidden-part')).toBe('http://proxy:[redacted]');
  });
});

describe('JSON', () => {
  it('remains valid JSON, whatever the secret contains', () => {
    const made = redactor('","bb":"', 'canary-99');
    expect(JSON.parse(made.json({ a: '","bb":"', c: ['canary-99', 7, null], 'canary-99': true }))).toEqual({
      a: '[redacted]',
      c: ['[redacted]', 7, null],
      '[redacted]': true,
    });
    expect(made.json({ a: 'x', b: 'y' })).toBe('{"a":"x","b":"y"}');
    expect(made.json(undefined)).toBe('null');
  });

  it.each([
    ['as it is', 'canary/99"x', '{"a":"canary/99\\"x"}'],
    ['with signs escaped that need not be', 'canary/99"x', '{"a":"canary\\/99\\"x"}'],
    ['with letters escaped', 'canary/99"x', '{"a":"c\\u0061nary/99\\u0022x"}'],
    ['in the name of a field', 'canary/99"x', '{"canary\\/99\\"x":1}'],
  ])('is redacted with the text that it was parsed from: %s', (_, secret, source) => {
    const clean = redactor(secret).clean(JSON.parse(source), source);
    expect(JSON.stringify(clean)).toContain('[redacted]');
    expect(JSON.stringify(clean)).not.toContain('canary');
  });

  it('is the same value without a secret', () => {
    const source = '{"a":"x\\n","b":"\\u0041"}';
    const value = JSON.parse(source);
    expect(redactor('canary-99').clean(value, source)).toBe(value);
    expect(new Redactor().clean(value, source)).toBe(value);
  });

  it('is redacted at any depth', () => {
    const value = { a: [{ b: 'canary-99' }], n: 1 };
    expect(redactStrings(value, redactor('canary-99').redact)).toEqual({ a: [{ b: '[redacted]' }], n: 1 });
  });
});

describe('streamed text', () => {
  /** Emits text like a stream. */
  function streamed(known: Redactor, pieces: readonly string[]): string {
    let held = '';
    let out = '';
    for (const piece of pieces) {
      const text = held + piece;
      const settled = known.settledLength(text);
      out += known.redact(text.slice(0, settled));
      held = text.slice(settled);
    }
    return out + known.redact(held);
  }

  it('is held back only while it may become a secret', () => {
    const known = redactor('sk-abcdefgh');
    expect(known.settledLength('nothing of it')).toBe(13);
    expect(known.settledLength('it ends in sk-abc')).toBe(11);
    expect(known.settledLength('it has sk-abcdefgh')).toBe(18);
    expect(known.settledLength('sk-abx')).toBe(6);
  });

  it('is not cut inside a secret whose end could begin another', () => {
    const known = redactor('first-secret', 'tomorrow-secret');
    expect(known.settledLength('a first-secret')).toBe(2);
    expect(streamed(known, ['a first-secret', ' b'])).toBe('a [redacted] b');
    expect(streamed(known, ['a first-secre', 'tomorrow-secret'])).not.toContain('first-secret');
  });

  it('is redacted like the whole text, however it is split', () => {
    const known = redactor('aabbaabb', 'bbaabbaabbcc');
    const texts = fc.stringMatching(/^(a|b|c|aabbaabb|bbaabbaabbcc){0,12}$/);
    fc.assert(
      fc.property(texts, fc.array(fc.nat(60)), (text, places) => {
        const cuts = [0, ...places.filter((at) => at < text.length).sort((a, b) => a - b), text.length];
        const pieces = cuts.slice(1).map((end, index) => text.slice(cuts[index], end));
        const out = streamed(known, pieces);
        expect(out).not.toMatch(/aabbaabb|bbaabbaabbcc/);
        if (!text.includes('aabbaabb') && !text.includes('bbaabbaabbcc')) expect(out).toBe(text);
      }),
    );
  });
});
