import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';

/** The result of a tool for a model that looks at images: its text, and the images as parts of a message. */
export interface ShownResult {
  readonly text: string;
  readonly images: readonly JsonObject[];
}

/** Of one result. Their size is bounded with the result: `max_tool_output_bytes` of the record and of the session. */
export const MAX_RESULT_IMAGES = 16;

// The server's words go into a url, so they are only what such a url may hold.
const imageType = /^image\/[a-z0-9.+-]{1,40}$/;
const base64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** Takes the images out of a result of an MCP tool; in their places the text says that they are shown. */
export function takeImages(result: string): ShownResult {
  const plain = { text: result, images: [] };
  if (!result.includes('"type":"image"')) return plain;
  const parsed = parseJson(result);
  if (!isJsonObject(parsed) || !Array.isArray(parsed.content)) return plain;
  const images: JsonObject[] = [];
  const content = parsed.content.map((block) => {
    const url = images.length < MAX_RESULT_IMAGES ? imageUrl(block) : null;
    if (url === null) return block;
    images.push({ type: 'image_url', image_url: { url } });
    return { type: 'text', text: `[image ${images.length} of this result is shown to you]` };
  });
  return images.length === 0 ? plain : { text: canonicalJson({ ...parsed, content }), images };
}

function imageUrl(block: JsonValue): string | null {
  if (!isJsonObject(block) || block.type !== 'image') return null;
  const { data, mimeType } = block;
  if (typeof data !== 'string' || typeof mimeType !== 'string') return null;
  return imageType.test(mimeType) && base64.test(data) ? `data:${mimeType};base64,${data}` : null;
}
