import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, type TestContext } from 'vitest';
import { type OpenPage, useBrowser } from '../support/browser.ts';
import { Cli, fixture } from './spear-run.ts';

const open = useBrowser();
const html = readFileSync(new URL('stream-page.html', import.meta.url));
const server = createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
  response.end(html);
});
beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

/** The page, opened from another origin than that of the WebSocket, and an echo guest that waits for it. */
async function openPage(test: TestContext): Promise<OpenPage & { cli: Cli; address: string }> {
  const { port } = server.address() as AddressInfo;
  const opened = await open(test, `http://127.0.0.1:${port}/`);
  const cli = new Cli([fixture('c/echo.wasm'), '--stream', 'ws://127.0.0.1:0']).listen();
  await cli.says('stderr', '\n');
  const [, address = ''] = /user streams at (\S+)\n/.exec(cli.text.stderr) ?? [];
  return { ...opened, cli, address };
}

async function connect({ page }: OpenPage, address: string): Promise<void> {
  await page.fill('#address', address);
  await page.click('#connect');
}

const state = ({ page }: OpenPage, beginning: string) =>
  page
    .locator('#state', { hasText: beginning })
    .waitFor()
    .then(() => page.locator('#state').textContent());

it('a page in a browser exchanges frames with a guest [user-stream.browser]', async (test) => {
  const opened = await openPage(test);
  const { page, said, cli, address } = opened;
  await connect(opened, address);
  expect(await state(opened, 'open')).toBe('open spear.stream.v1');
  const texts = ['hello from a page', '', 'größe 🦀', 'x'.repeat(200_000)];
  for (const [index, text] of texts.entries()) {
    await page.fill('#text', text);
    await page.click('#send');
    await page.locator(`#answers li:nth-child(${index + 1})`).waitFor();
  }
  // The guest makes capitals of ASCII letters and sends the rest of the frame back as it came.
  const capitals = (text: string) => text.replaceAll(/[a-z]/g, (letter) => letter.toUpperCase());
  expect(await page.locator('#answers li').allTextContents()).toEqual(
    texts.map((text, index) => `${index + 1}: ${capitals(text)}`),
  );
  await page.click('#close');
  expect(await state(opened, 'closed')).toBe('closed 1000');
  const { code, stdout } = await cli.finished();
  expect([code, stdout, said]).toEqual([0, '4 frames\n', []]);
});

it('a page that does not know the token is not let in, and both sides say why [user-stream.browser]', async (test) => {
  const opened = await openPage(test);
  const { said, cli, address } = opened;
  await connect(opened, address.replace(/token=.*/, 'token=guessed'));
  expect(await state(opened, 'closed')).toBe('closed 1006'); // scripts are told nothing more, by the specification
  expect(said.join('\n')).toContain('HTTP Authentication failed'); // a browser's words for 401
  await cli.says('stderr', 'a user stream client was rejected: the token in the URL is missing or wrong');
  await connect(opened, address);
  expect(await state(opened, 'open')).toBe('open spear.stream.v1');
  cli.child.kill('SIGINT');
  expect(await state(opened, 'closed')).toBe('closed 1000');
});

it('a page that sends what is no frame is told the reason [user-stream.browser]', async (test) => {
  const opened = await openPage(test);
  await connect(opened, opened.address);
  await state(opened, 'open');
  await opened.page.click('#garbage');
  const reason = 'a frame does not begin with "SPST"';
  expect(await state(opened, 'closed')).toBe(`closed 1008 ${reason}`);
  await opened.cli.says('stderr', `user stream client: ${reason}`);
});
