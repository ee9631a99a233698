import type { ModelEvent } from '../../chat/model-event.ts';
import { endLine, sayOn } from './output.ts';

/**
 * `--follow`: what models say and which tools they call, for whoever looks on. Each line begins with the name of its
 * session, so that no text of a model can pass for one of the host.
 */
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
      line(`${session} has ${event.ok ? 'an answer' : 'an error'} of `, event.name);
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
