// An answer as it comes, line by line.
import { Chat, say, task } from './spear.js';

export const run = task(() => {
  const chat = new Chat().say('user', 'What is WebAssembly, in two lines?');
  let line = '';
  for (const event of chat.stream()) {
    if (event.type === 'error') throw new Error(`the model did not answer: ${event.error.message}`);
    if (event.type !== 'text') continue;
    const lines = (line + event.text).split('\n');
    line = lines.pop();
    for (const whole of lines) say.info(whole);
  }
  if (line !== '') say.info(line);
});
