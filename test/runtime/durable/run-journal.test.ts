import { expect, it } from 'vitest';
import type { JournalWriter } from '../../../src/runtime/durable/journal-file.ts';
import { RunJournal } from '../../../src/runtime/durable/run-journal.ts';

it('records the start of a tool call after a stop, so that its outcome is unknown on resume [stop.runs]', () => {
  const written: { readonly t: string }[] = [];
  const file = {
    append: (record: string) => written.push(JSON.parse(record)),
    flush: () => {},
  } as unknown as JournalWriter;
  const journal = new RunJournal({ started: 0 } as never, null, file);
  journal.suspend();
  const call = { ordinal: '1.1', session: 's1', server: 'bank', tool: 'pay', args: '{}', revision: 1 };
  journal.started(call);
  journal.finished('1.1', '{}', null, null);
  expect(written.map(({ t }) => t)).toEqual(['tool.started']);
});
