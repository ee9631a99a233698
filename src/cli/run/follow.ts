import type { ModelEvent } from '../../agent/chat/model-events.ts';
import { endLine, sayOn } from './output.ts';

/** `--follow`. Each line starts with the name of its session, so that model output cannot look like a host message. */
export function followModel(event: ModelEvent, session: string): void {
  switch (event.type) {
    case 'text':
      go(`${session} | `, event.text);
      return;
    case 'reasoning':
      go(`${session} thinks | `, event.text);
      return;
    case 'tool_start':
      line(`${session} calls `, event.name);
      return;
    case 'tool_result':
      line(`${session} ${event.ok ? 'result' : 'error'} of `, event.name);
      return;
    case 'error':
      line(`${session} failed: `, `${String(event.error.code)}: ${String(event.error.message)}`);
      return;
    case 'usage':
      return;
    case 'end':
      endLine();
  }
}

function go(start: string, text: string): void {
  for (const [index, part] of text.replaceAll('\r\n', '\n').split('\n').entries()) {
    if (index > 0) endLine();
    sayOn(start, part);
  }
}

function line(start: string, text: string): void {
  endLine();
  sayOn(start, text);
  endLine();
}
