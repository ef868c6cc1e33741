// What is asked of the server, with the token where there is one.

let token = sessionStorage.getItem("token") || "";
if (location.hash.startsWith("#token=")) {
  token = location.hash.slice(7);
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", location.pathname);
}

export const unlocked = () => Boolean(token);

// Take another token, or none; the page hears of it.
export function unlock(given) {
  token = given;
  if (token) sessionStorage.setItem("token", token);
  else sessionStorage.removeItem("token");
  document.dispatchEvent(new Event("token"));
}

export const headers = (more = {}) => (token ? { ...more, Authorization: `Bearer ${token}` } : more);

export async function call(path, body, more = {}) {
  const given = { method: body === undefined ? "GET" : "POST", headers: headers(more) };
  if (body instanceof FormData) given.body = body;
  else if (body !== undefined) {
    given.body = JSON.stringify(body);
    given.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, given);
  const found = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  if (!answer.ok) {
    if (answer.status === 401) unlock("");
    throw new Error(found.error);
  }
  return found;
}

// A change that may be sent again after a lost connection, and counts once.
export async function change(path, body) {
  const key = { "Idempotency-Key": crypto.randomUUID ? crypto.randomUUID() : `${Math.random()}` };
  for (let trial = 0; ; trial++) {
    try {
      return await call(`${path}?wait=true`, body, key);
    } catch (error) {
      if (!(error instanceof TypeError) || trial === 2) throw error;
      await new Promise((go) => setTimeout(go, 500));
    }
  }
}

// Events as they come, for ever: what happened, and when the connection begins and is lost.
export async function listen({ begun, heard, lost }) {
  for (;;) {
    try {
      const answer = await fetch("/v1/events", { headers: headers() });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      await begun();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const parts = text.split("\n\n");
        text = parts.pop();
        for (const part of parts) {
          const name = /^event: (.*)$/m.exec(part), data = /^data: (.*)$/m.exec(part);
          if (name && data) heard(name[1], JSON.parse(data[1]));
        }
      }
    } catch { /* the server may come back */ }
    lost();
    await new Promise((go) => setTimeout(go, 2000));
  }
}
