import { describe, expect, it } from 'vitest';
import { FlagError, parseFlags, usage } from '../../bench/flags.ts';
import { topics } from '../../bench/topics/all.ts';

const names = topics.map(({ name }) => name);

describe('the command line of the bench', () => {
  it('measures everything, fully, unless told otherwise', () => {
    expect(parseFlags([])).toEqual({ help: false, quick: false, json: null, html: null, topics: names });
    expect(parseFlags(['--quick', 'start', 'hostcalls'])).toMatchObject({
      quick: true,
      topics: ['hostcalls', 'start'],
    });
    expect(parseFlags(['--json', 'a.json', '--html', 'a.html'])).toMatchObject({ json: 'a.json', html: 'a.html' });
  });

  it('has every topic of the table', () => {
    const table =
      'hostcalls waiting component async mcp tool-loop injection tool-search journal start density node-queue node cluster registry revocation peers growth';
    expect(names.join(' ')).toBe(table);
    for (const { name, title } of topics) expect(usage).toMatch(new RegExp(`^  ${name} +${title}$`, 'm'));
  });

  it('names the topics where it is given another one', () => {
    expect(() => parseFlags(['hostcall'])).toThrow(FlagError);
    expect(() => parseFlags(['hostcall'])).toThrow(`unknown topic "hostcall"; known topics: ${names.join(', ')}`);
  });

  it('says where the options are listed where it is given another one', () => {
    expect(() => parseFlags(['--fast'])).toThrow(/--fast.*npm run bench -- --help/s);
  });
});
