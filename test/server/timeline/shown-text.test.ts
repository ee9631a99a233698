import { describe, expect, it } from 'vitest';
import { SHOWN_CHARS, textShower } from '../../../src/server/timeline/shown-text.ts';
import { cpuMs } from '../../support/cpu-time.ts';

const cut = textShower(false);
const whole = textShower(true);
const key = 'sk-live-0123456789abcdef';
const pem = `-----BEGIN PRIVATE KEY-----\n${'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n'.repeat(40)}-----END PRIVATE KEY-----`;

describe('a text that is shown', () => {
  it.each([
    ['a credential in words', `use ${key} for it`, 'use [redacted] for it'],
    ['the value of a name', '{"user":"ann","password":"hunter2"}', '{"user":"ann","password":"[redacted]"}'],
    ['an assignment', 'password=hunter2 and more', 'password=[redacted] and more'],
    ['a key over many lines', `before\n${pem}\nafter`, 'before\n[redacted]\nafter'],
  ])('has %s masked, cut or whole [journal.show.masked]', (_, text, shown) => {
    if (text.length <= SHOWN_CHARS) expect(cut(text)).toEqual({ text: shown, cut_from: null });
    expect(whole(text)).toEqual({ text: shown, cut_from: null });
    expect(cut(text).text).not.toMatch(/MIIEvQ|sk-live|hunter2/);
  });

  it('is whole where it is asked for, and masked at every place', () => {
    const words = 'plain words, '.repeat(1_000);
    expect(whole(words)).toEqual({ text: words, cut_from: null });
    for (let before = 1_000; before < 1_100; before++) {
      expect(whole(`${'x '.repeat(before / 2)}${key} ${words}`).text).not.toContain('0123456789');
    }
  });

  it('is cut where nobody asked for all of it, and never inside a word', () => {
    const text = `${'word '.repeat(199)}${key} and more ${'word '.repeat(100)}`;
    expect(cut(text)).toEqual({ text: 'word '.repeat(199), cut_from: text.length });
    expect(cut(`{"a":"${'b '.repeat(2_000)}"}`).cut_from).toBe(4_008);
    expect(cut('['.repeat(100_000)).cut_from).toBe(100_000);
  });

  it('takes no more time than its length, whatever it is', () => {
    const parts = ['-', 'a', '--a ', 'token: ', '-eyJ', 'https://a:', '-----BEGIN PRIVATE KEY-----', '["', '"a,'];
    const took = cpuMs(() => {
      for (const part of parts) whole(part.repeat(100_000 / part.length));
    });
    expect(took).toBeLessThan(10_000);
  });
});
