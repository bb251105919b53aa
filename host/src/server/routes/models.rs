//! `GET /v1/models` and `GET /v1/models/{id}`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::super::error::ApiError;
use super::super::log::RequestLog;
use super::super::{App, Served};
use super::{names, outcome};

fn model(served: &Served) -> Value {
    let info = &served.info;
    json!({
        "id": info.id,
        "object": "model",
        "created": info.created,
        "owned_by": "varve",
        "meta": {
            "context": served.engine.context(),
            "vocab": served.engine.vocab(),
            "format": info.format,
            "parameters": info.parameters,
        },
    })
}

/// The model that is served.
pub async fn list(State(app): State<Arc<App>>, Extension(log): Extension<RequestLog>) -> Response {
    let served = app.served();
    outcome(served.map(|served| Json(json!({"object": "list", "data": [model(served)]})).into_response()), &log)
}

/// The same, by its name or an alias.
pub async fn one(
    State(app): State<Arc<App>>,
    Extension(log): Extension<RequestLog>,
    Path(id): Path<String>,
) -> Response {
    let found = app.served().and_then(|served| {
        let names = names(&app, served);
        let known = names.contains(&id);
        known.then(|| Json(model(served)).into_response()).ok_or_else(|| ApiError::model_not_found(&id, &names))
    });
    outcome(found, &log)
}
